"""What is asked and how it is graded: benchmarks as data, question sets by content."""
