"""The gate as a Django app: name it in INSTALLED_APPS, and `migrate` makes its tables."""
