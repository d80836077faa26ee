"""Throughput of unseen cells on public tables: the filter beside other factorisations."""
