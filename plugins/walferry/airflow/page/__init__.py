"""The replication page in Airflow's navigation: how the replication of each source stands. It shows, and changes nothing.

    mounted      what plugins/walferry_plugin.py gives to Airflow's api server; it makes the app at the first request
    app          the routes, their permission and their headers
    access       who may see it, and who is offered forms
    sources      which connections are shown, and what is known of each
    asked        what a viewer asks for: source, filters, page
    rows         the rows of the table of queues: filtered, sorted, paged
    peers        what is said of a peer first
    plots        the last day as curves
    forms        what to enter into Airflow's forms to act on what is shown
    links        addresses of Airflow's own pages
    formats      durations, sizes and times as text
    rendering    turns what is known of the sources into HTML
    templates/, static/     HTML, style and script

Whatever comes from ZooKeeper is escaped by the templates and shown by `texts.visible`. Only `mounted`, `access` and `sources`
import Airflow, and only when something is asked for, because each of Airflow's processes imports the plugin.
"""
