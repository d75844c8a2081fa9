"""What calls will need, compiled before they ask for it."""
