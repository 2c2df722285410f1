"""Where people look at answers."""
