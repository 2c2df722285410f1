"""Readers of what earlier systems left behind. They read only; what becomes of the rows is the caller's business."""
