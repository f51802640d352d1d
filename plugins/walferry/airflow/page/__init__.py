"""The replication page in Airflow's navigation: the state of each source's replication. It changes nothing.

    mounted      the app that plugins/walferry_plugin.py gives to Airflow's api server; it is made at the first request
    app          the routes, their permission and their headers
    access       which sources a user may see, and which forms the user is offered
    sources      what is known of each source
    asked        the viewer's choices: source, filters, page
    rows         the rows of the table of queues: filtered, sorted, paged
    peers        a peer's condition in a word, and the order of peers
    plots        the last day as curves
    forms        values for Airflow's forms, by which a viewer acts on the rows
    links        addresses of Airflow's own pages
    formats      durations, sizes and times as text
    rendering    turns the sources' statuses into HTML
    templates/, static/     HTML, style and script

The templates escape all text from ZooKeeper, and `texts.visible` shows it. Only `mounted`, `access` and `sources` import Airflow,
and only at a request, because each of Airflow's processes imports the plugin.
"""
