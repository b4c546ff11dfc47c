"""Networks: backbone, head, and both as one embedder."""
