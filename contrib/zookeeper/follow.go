// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/athena-go/athena/internal/leasestore"
	"github.com/athena-go/athena/record"
)

// Follow watches the folders and each node in them. If the connection is lost, the client renews
// its watches, and ZooKeeper reports what has changed. If the session is lost, the watches are lost
// too. Follow recreates deleted folders.
func (b *backend) Follow(ctx context.Context, see func(bool, []leasestore.Entry)) error {
	ctx, stop := context.WithCancel(ctx)
	f := follower{backend: b, events: make(chan zk.Event), names: map[string]bool{}}
	defer f.running.Wait()
	defer stop()
	b.dropWatches()
	if err := b.makeFolders(ctx); err != nil {
		return err
	}
	var all []leasestore.Entry
	for _, folder := range folders {
		entries, err := f.listFolder(ctx, folder)
		if err != nil {
			return convertErr(err, record.ErrNoQuorum)
		}
		all = append(all, entries...)
	}
	for see(true, all); ; {
		select {
		case ev := <-f.events:
			changed, err := f.readEvent(ctx, ev)
			if err != nil {
				return convertErr(err, record.ErrNoQuorum)
			}
			see(false, changed)
		case <-ctx.Done():
			return convertErr(context.Cause(ctx), record.ErrNoQuorum)
		}
	}
}

// follower is one call of Follow.
type follower struct {
	*backend
	running sync.WaitGroup
	events  chan zk.Event   // events of all watches
	names   map[string]bool // names of the watched entries
}

// watch is a one-time watch of the client on a node. It cannot be removed, so the next follower
// inherits it.
type watch struct {
	event <-chan zk.Event
	by    *follower
}

// dropWatches removes the watches that have an unread event.
func (b *backend) dropWatches() {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.watches, func(_ string, w *watch) bool { return len(w.event) > 0 })
}

func (b *backend) isWatched(path string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.watches[path] != nil
}

// addWatch stores a new watch of the client. It does nothing if event is nil.
func (b *backend) addWatch(path string, event <-chan zk.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if event != nil {
		b.watches[path] = &watch{event: event}
	}
}

// readEvent reads the node that an event is about.
func (f *follower) readEvent(ctx context.Context, ev zk.Event) ([]leasestore.Entry, error) {
	if ev.Type == zk.EventNotWatching {
		return nil, errors.Join(errors.New("the watches were lost"), ev.Err)
	}
	name := strings.TrimPrefix(strings.TrimPrefix(ev.Path, f.root), "/")
	folder, escaped, isNode := strings.Cut(name, "/")
	if !isNode {
		return f.listFolder(ctx, folder)
	}
	rest, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, err
	}
	e, err := f.watchEntry(ctx, folder+"/"+rest)
	if err != nil || folder == "leases" {
		return []leasestore.Entry{e}, err
	}
	// Entries that were created in the same transaction must be reported together with this change. If
	// the node was deleted and recreated, this also applies to entries that were created before.
	children, err := callClient(ctx, func() ([]string, error) {
		children, _, err := f.conn.Children(path.Join(f.root, folder))
		return children, err
	})
	if err != nil {
		return nil, err
	}
	others, err := f.compareFolder(ctx, folder, children)
	return append([]leasestore.Entry{e}, others...), err
}

// listFolder reads the new entries of a folder. It also returns the deleted entries.
func (f *follower) listFolder(ctx context.Context, folder string) ([]leasestore.Entry, error) {
	at := path.Join(f.root, folder)
	children, err := callClient(ctx, func() ([]string, error) {
		if f.isWatched(at) {
			children, _, err := f.conn.Children(at)
			return children, err
		}
		children, _, event, err := f.conn.ChildrenW(at)
		f.addWatch(at, event)
		return children, err
	})
	if err != nil {
		return nil, err
	}
	f.awaitEvent(ctx, at)
	return f.compareFolder(ctx, folder, children)
}

// compareFolder does the same as listFolder for a folder with the given children.
func (f *follower) compareFolder(
	ctx context.Context, folder string, children []string,
) (changed []leasestore.Entry, err error) {
	now := map[string]bool{}
	for _, child := range children {
		rest, err := url.PathUnescape(child)
		if err != nil {
			continue // not an entry
		}
		name := folder + "/" + rest
		now[name] = true
		if !f.names[name] {
			e, err := f.watchEntry(ctx, name)
			if err != nil {
				return nil, err
			}
			changed = append(changed, e)
		}
	}
	for name := range f.names {
		if strings.HasPrefix(name, folder+"/") && !now[name] {
			delete(f.names, name)
			f.forgetNode(name)
			changed = append(changed, leasestore.Entry{Name: name})
		}
	}
	return changed, nil
}

// watchEntry reads an entry and, if it exists, watches it.
func (f *follower) watchEntry(ctx context.Context, name string) (leasestore.Entry, error) {
	at := f.nodePath(name)
	e, err := callClient(ctx, func() (leasestore.Entry, error) {
		if f.isWatched(at) {
			data, stat, err := f.conn.Get(at)
			return f.storeNode(name, data, stat, err)
		}
		data, stat, event, err := f.conn.GetW(at)
		f.addWatch(at, event)
		return f.storeNode(name, data, stat, err)
	})
	if err != nil {
		return e, fmt.Errorf("%s: %w", name, err)
	}
	f.awaitEvent(ctx, at)
	if e.Revision == 0 {
		delete(f.names, name)
	} else {
		f.names[name] = true
	}
	return e, nil
}

// awaitEvent forwards the event of a node's watch, if it has one.
func (f *follower) awaitEvent(ctx context.Context, path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.watches[path]
	if w == nil || w.by == f {
		return
	}
	w.by = f
	f.running.Go(func() {
		select {
		case ev := <-w.event:
			f.mu.Lock()
			if f.watches[path] == w {
				delete(f.watches, path)
			}
			f.mu.Unlock()
			select {
			case f.events <- ev:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
	})
}
