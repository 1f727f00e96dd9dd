"""Dashboards, rules and scrape settings, as files that Prometheus and Grafana read."""
