"""Starting and watching nginx, gunicorn and the model server."""
