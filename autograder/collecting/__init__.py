"""What students handed in, from wherever it lies, into the course: every attempt kept, the latest graded."""
