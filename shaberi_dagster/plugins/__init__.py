"""Files of users by kind and name, and new ones from examples."""
