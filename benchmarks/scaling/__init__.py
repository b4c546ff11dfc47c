"""The parts of `scale.py`: what was recorded, what is measured, and the virtual cluster."""
