"""Parts of compose_logs.py: jobs that never ran, and the logs that they would have left."""
