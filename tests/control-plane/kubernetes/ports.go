package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Below the range from which Linux takes the ports of outgoing connections (32768 and above), so that no
// connection of another test takes a port between our finding it free and a server's listening on it.
const (
	lowest  = 20000
	highest = 32767
)

// printPorts prints as many TCP ports of 127.0.0.1 as its one argument says, one a line, each free just now.
func printPorts(arguments []string) error {
	if len(arguments) != 1 {
		return errors.New("usage: ports COUNT")
	}
	count, err := strconv.Atoi(arguments[0])
	if err != nil {
		return err
	}
	for _, offset := range rand.Perm(highest - lowest + 1) {
		if count <= 0 {
			return nil
		}
		port := lowest + offset
		listener, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // somebody else's
		}
		// Held until the end, so that none is handed out twice.
		defer listener.Close()
		fmt.Println(port)
		count--
	}
	return errors.New("not enough free ports")
}
