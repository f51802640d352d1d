"""Rules that all loads of files into a peer cluster keep to: loads of a backlog, and loads of an initial snapshot.

file_loader                  one load, from noting its folder to deleting it; also deletes the folders of killed loads
numbered                     has a peer cluster load files, and checks that they count as younger than all its earlier data
staging                      the folders at the peer cluster into which files are put
records                      the records of loads, in ZooKeeper
earlier_loads                the edits that are loaded already, for runs that ship now
fence                        keeps runs out that were overtaken
region_lock                  one load at a time into a region of the peer cluster
copied_tables                chooses the tables and families of an initial snapshot
copy_records, copy_border    the records of an initial snapshot; up to where the queues are older than the copy
errors                       errors
"""
