"""What a class made of a unit: one page for the instructor."""
