"""What is true: pure rules and records. No I/O, no clock, no dice."""
