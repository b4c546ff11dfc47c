"""The edge: the only room that knows Ray."""
