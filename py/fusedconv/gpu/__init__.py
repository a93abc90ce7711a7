"""The only part that touches the browser: devices, buffers, pipelines, runs.

The JavaScript beside the modules does the WebGPU calls; the modules keep what it gave out.
"""
