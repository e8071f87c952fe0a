"""The configuration of a run that ends within a second, for tests of programs around it."""

SMALL = """
[model]
dim = 32
layers = 1
heads = 2
vocab = 64
max_seq_len = 16
[train]
steps = 6
batch = 2
sequence = 16
[data]
dtype = "u32"
[output]
save_weights = false
"""
