"""What is measured: servers started for it, watched from outside, stopped for sure."""
