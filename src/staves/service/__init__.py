"""The service: jobs that are submitted, kept, scheduled and watched."""
