"""What a checkout needs to run: Python and npm packages, a browser, a folder with Pyodide.

Standard library only, but for the modules that run inside the environment once it is there:
headless.py and operators.py.
"""
