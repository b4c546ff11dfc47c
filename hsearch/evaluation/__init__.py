"""Embedding a data set and scoring the embeddings."""
