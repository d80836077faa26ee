"""`make demo`: one job over six unlike (emulated) devices, first evenly, then optimally."""
