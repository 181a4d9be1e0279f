// Producers of Go's client libraries: LIBRARY SERVERS USER PASSWORD TOPIC CLIENT_ID COUNT once|crowd.
//
// With once: a producer that stays open sends a message, "ready" is printed, and a line on standard input awaited. Then
// COUNT new producers send a message each, while the first goes on. Lines: "known" or "new", and when it was delivered,
// in milliseconds since the epoch; or "failed" and why.
//
// With crowd: COUNT threads make a producer per message; their counts of deliveries are printed as a list, and failures.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const pause = 50 * time.Millisecond

type settings struct {
	servers, user, password, topic, clientID string
}

type producer interface {
	// send returns once the message is acknowledged.
	send(value string) error
	close()
}

var libraries = map[string]func(settings) (producer, error){"franz-go": openFranz, "sarama": openSarama}

func main() {
	given := os.Args[1:]
	asked := settings{given[1], given[2], given[3], given[4], given[5]}
	open := func() producer { return openUntilItWorks(libraries[given[0]], asked) }
	count, err := strconv.Atoi(given[6])
	if err != nil {
		panic(err)
	}
	map[string]func(func() producer, int){"crowd": crowd, "once": once}[given[7]](open, count)
}

func once(open func() producer, count int) {
	known := open()
	must(known.send("known"))
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	for range count {
		go func() {
			fresh := open()
			must(fresh.send("new"))
			fmt.Println("new", time.Now().UnixMilli())
		}()
	}
	for {
		must(known.send("known"))
		fmt.Println("known", time.Now().UnixMilli())
		time.Sleep(pause)
	}
}

func crowd(open func() producer, count int) {
	delivered := make([]atomic.Int64, count)
	for number := range delivered {
		go func() {
			for {
				fresh := open()
				if err := fresh.send("one order"); err != nil {
					fmt.Println("failed", err)
				} else {
					delivered[number].Add(1)
				}
				fresh.close()
			}
		}()
	}
	for {
		time.Sleep(pause)
		counts := make([]string, count)
		for number := range delivered {
			counts[number] = strconv.FormatInt(delivered[number].Load(), 10)
		}
		fmt.Printf("[%s]\n", strings.Join(counts, ", "))
	}
}

// A library may give up before it has taken a message: its user tries again.
func openUntilItWorks(open func(settings) (producer, error), asked settings) producer {
	for {
		opened, err := open(asked)
		if err == nil {
			return opened
		}
		fmt.Println("failed", err)
	}
}

func must(err error) {
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
}
