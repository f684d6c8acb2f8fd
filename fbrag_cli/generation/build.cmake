# Builds of llama.cpp what fbrag calls: the library. Without its command line, its HTTP client and its reader of pictures a build
# takes 0.43 of the time, and the library is the same to the byte. CMake reads this file where CMAKE_TOOLCHAIN_FILE names it.
set(LLAVA_BUILD OFF)
set(LLAMA_BUILD_COMMON OFF)
