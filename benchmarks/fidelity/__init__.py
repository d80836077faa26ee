"""Simulator and cluster side by side: one trace on a real service, and on simulated time."""
