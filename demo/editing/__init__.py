"""The edit demo: scenes and what is asked of them, the training on both, the checker and the exam."""
