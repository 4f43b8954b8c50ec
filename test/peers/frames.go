// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"sync"
	"time"
)

// Raw streams carry frames: four bytes of length, then the message. They show what a transport can
// do without a library for messages.

const (
	lengthBytes = 4
	bufferBytes = 128 << 10
	// gatherBytes bounds the bytes that wait for the goroutine that writes.
	gatherBytes = 256 << 10
)

func appendFrame(b, p []byte) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(p))), p...)
}

// readFrame reads a frame into buf.
func readFrame(r io.Reader, buf []byte) ([]byte, error) {
	if _, err := io.ReadFull(r, buf[:lengthBytes]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(buf)
	if n < stampBytes || n > uint32(len(buf)) {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	_, err := io.ReadFull(r, buf[:n])
	return buf[:n], err
}

// serveFrames counts the one-way messages of a stream and echoes its requests. Answers are written
// together while more requests are waiting.
func serveFrames(stream io.ReadWriter, s *sink) {
	in, out := bufio.NewReaderSize(stream, bufferBytes), bufio.NewWriterSize(stream, bufferBytes)
	buf := make([]byte, largeBytes)
	var reply []byte
	for {
		p, err := readFrame(in, buf)
		if err != nil {
			return // the sender has closed the stream
		}
		if p[0] == oneWay {
			s.count.Add(1)
			continue
		}
		p[0] = answer
		reply = appendFrame(reply[:0], p)
		_, err = out.Write(reply)
		if err == nil && in.Buffered() == 0 {
			err = out.Flush()
		}
		if err != nil {
			return
		}
	}
}

// frameClient shares a stream among all workers. One goroutine writes everything that has
// accumulated during its last write.
type frameClient struct {
	stream io.ReadWriter
	stop   func()
	// answered receives a value for each worker whose request was answered.
	answered []chan struct{}

	mu            sync.Mutex
	changed       sync.Cond
	gathered, old []byte
	writing       bool
	err           error
}

func newFrameClient(stream io.ReadWriter, stop func(), workers int) *frameClient {
	f := &frameClient{stream: stream, stop: stop}
	f.changed.L = &f.mu
	for range workers {
		f.answered = append(f.answered, make(chan struct{}, 1))
	}
	go f.readAnswers()
	go f.writeGathered()
	return f
}

func (f *frameClient) readAnswers() {
	in := bufio.NewReaderSize(f.stream, bufferBytes)
	buf := make([]byte, largeBytes)
	for {
		p, err := readFrame(in, buf)
		if err != nil {
			f.fail(err)
			return
		}
		if w := workerOf(p); w < len(f.answered) {
			f.answered[w] <- struct{}{}
		}
	}
}

func (f *frameClient) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = errors.Join(f.err, err)
	f.changed.Broadcast()
}

func (f *frameClient) writeGathered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for len(f.gathered) == 0 && f.err == nil {
			f.changed.Wait()
		}
		if f.err != nil {
			return
		}
		out := f.gathered
		f.gathered, f.writing = f.old[:0], true
		f.changed.Broadcast()
		f.mu.Unlock()
		_, err := f.stream.Write(out)
		f.mu.Lock()
		f.old, f.writing, f.err = out, false, errors.Join(f.err, err)
		f.changed.Broadcast()
	}
}

func (f *frameClient) send(_ int, p []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.gathered) > gatherBytes && f.err == nil {
		f.changed.Wait()
	}
	if len(f.gathered) == 0 {
		f.changed.Broadcast()
	}
	f.gathered = appendFrame(f.gathered, p)
	return f.err
}

// call fails if no answer arrives, because then no other request would be answered either.
func (f *frameClient) call(worker int, p []byte) error {
	if err := f.send(worker, p); err != nil {
		return err
	}
	<-f.answered[worker]
	return nil
}

func (f *frameClient) flush() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for (len(f.gathered) > 0 || f.writing) && f.err == nil {
		f.changed.Wait()
	}
	return f.err
}

func (f *frameClient) close() { f.stop() }

// serverTLS returns TLS 1.3 with a certificate that it creates.
func serverTLS() (*tls.Config, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"peers"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
		NextProtos:   []string{"peers"}, MinVersion: tls.VersionTLS13,
	}, nil
}

// clientTLS accepts any certificate, because only the encryption is measured, and the receiver is a
// process of this measurement.
func clientTLS() *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"peers"}, MinVersion: tls.VersionTLS13,
	}
}

// serveTLS receives frames over TLS on TCP.
func serveTLS(_ receiverSetup, s *sink) (string, error) {
	cfg, err := serverTLS()
	if err != nil {
		return "", err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		return "", err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveFrames(c, s)
		}
	}()
	return l.Addr().String(), nil
}

func dialTLS(address string, workers int) (client, error) {
	c, err := tls.Dial("tcp", address, clientTLS())
	if err != nil {
		return nil, err
	}
	return newFrameClient(c, func() { _ = c.Close() }, workers), nil
}
