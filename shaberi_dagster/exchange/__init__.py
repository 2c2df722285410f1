"""What comes in from other trees and caches, and what goes out as files."""
