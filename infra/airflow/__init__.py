"""Airflow for one machine: SQLite, the DAGs of this repository, jobs run by the product's environment."""
