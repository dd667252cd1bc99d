"""The arrival experiment: pods arrive one after another and stay. It measures which fraction of the
GPUs is used in the end.
"""
