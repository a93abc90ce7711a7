"""A super-resolution network, read from the files that its npm package ships, run by fusedconv.

keras.py reads the files, lowering.py turns layers into fused convolutions, graph.py is the result,
network.py runs it on the GPU, tiles.py cuts large images. Only network.py needs the GPU;
nothing needs NumPy.
"""
