"""What all loads of files into a slave keep to: those of a backlog, and those of an initial snapshot.

file_loader                  one load from the note of its folder to its deletion, also of what killed ones have left
numbered                     has a slave load files, and makes sure that they count as younger than all that it has
staging                      the folders at the slave into which files are put
records                      what is known of loads, in ZooKeeper
earlier_loads                what is loaded already, for whoever ships now
fence                        keeps runs out that were overtaken
region_lock                  one load at a time into a region of the slave
copied_tables                which tables and families an initial snapshot takes
copy_records, copy_border    what is copied already; up to where the queues are older than the copy
errors, copy_errors          what can go wrong
"""
