"""How far a run is and what it did: as text for the log, as a dict for XCom, and as a verdict.

batch           what a batch did for one peer
progress        logs how far a Spark job is, in the task that waits for it
recovery        what a recovery of dead servers' queues did: for people, for Airflow, and as a verdict
replay          what a run has shipped again of an interval: for the log, and for Airflow's database
verification    what a verification has found of one peer
"""
