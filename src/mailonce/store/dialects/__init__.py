"""What the two databases cannot share."""
