"""What a checkout needs to run: packages, a browser, a folder with Pyodide. Standard library only."""
