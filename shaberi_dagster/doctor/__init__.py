"""Is everything in place, and is anything left over? What `shaberi doctor` finds out."""
