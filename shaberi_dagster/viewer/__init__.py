"""Looking at results: web pages, a file to send, and the terminal browser."""
