"""What a notebook of the course imports: `from minitx.course import check`."""
