"""What runs Hotset on one machine: set-up, the local stack, Airflow, the demo. Not part of the distribution."""
