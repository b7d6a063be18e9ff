"""Where people and programs meet a model: the HTTP server with its client, and the page to play with."""
