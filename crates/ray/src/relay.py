"""Connects its input and output to a port of this node."""
import os
import socket
import sys
import threading


def send(connection):
    while data := os.read(0, 1 << 16):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def main():
    connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    threading.Thread(target=send, args=(connection,), daemon=True).start()
    while data := connection.recv(1 << 16):
        while data:
            data = data[os.write(1, data) :]


main()
