# docker build -t tessera . && docker run --rm tessera run matmul_relu
#
# The command line with all C++ kernels, for any x86-64 or ARM processor, and what `tessera new` compiles with.
FROM debian:12
COPY tessera packages.txt /usr/src/tessera/
RUN /usr/src/tessera/tessera install run && rm -rf /var/lib/apt/lists/*
COPY . /usr/src/tessera
RUN cmake -S /usr/src/tessera -B /tmp/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DTESSERA_NATIVE=OFF -DCMAKE_INSTALL_PREFIX=/usr/local \
 && ninja -C /tmp/build && cmake --install /tmp/build && rm -rf /tmp/build
ENTRYPOINT ["tessera"]
