# Included by llama.cpp's own project: its chat templates, servers and downloads are half of its sources, and of no use here.
set(LLAMA_BUILD_COMMON OFF)
