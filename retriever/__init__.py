"""Online retrieval: the three steps of OMGM, their models and kernels. Start reading at `retriever.pipeline`."""
