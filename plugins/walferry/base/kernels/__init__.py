"""Compiled primitives that the codecs share: compiling and caching kernels, and what kernels read and write with.

compiled    compiles kernels
read        reads varints, protobuf fields and integers from a buffer, and hashes bytes
write       writes varints, integers and copies of bytes. The caller has made sure that there is room
"""
