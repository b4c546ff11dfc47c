"""Image files, the Arrow store, and the batches made from it."""
