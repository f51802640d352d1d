"""Compiles and caches kernels, and reads and writes bytes in them, for all codecs.

compiled    compiles kernels, and finds the code of kernels that were compiled before
types       the types of kernels' arguments
read        reads varints, protobuf fields and integers from a buffer, and compares and hashes bytes
write       writes varints, integers and copies of bytes. The caller has made sure that there is room
"""
