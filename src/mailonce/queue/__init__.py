"""What runs by itself: keeping the configuration fresh and the store in bounds."""
