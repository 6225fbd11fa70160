"""Release, collect and grade notebooks with hidden tests that student code never meets."""
