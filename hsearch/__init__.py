"""Which (hierarchical) deep-metric-learning loss works best on your images?"""

__version__ = "0.1.0"
