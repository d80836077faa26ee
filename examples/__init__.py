"""Scripts that use Staves, each small enough to copy from."""
